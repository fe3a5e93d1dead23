DROP INDEX qos_policies_default;
