-- Earlier releases made the sample network without a physical network, so that no host could guarantee its ports any bandwidth. The network is
-- known by its subnet.
UPDATE networks SET network_type = 'flat', physical_network = 'physnet0'
WHERE name = 'private' AND shared = TRUE AND network_type IS NULL AND physical_network IS NULL
  AND id IN (SELECT network_id FROM subnets WHERE name = 'private-subnet' AND cidr = '10.1.0.0/20');
