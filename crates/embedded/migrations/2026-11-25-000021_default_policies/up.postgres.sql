-- Earlier releases let a project have several default policies. The oldest stays.
UPDATE qos_policies SET is_default = FALSE
WHERE is_default = TRUE AND number > (SELECT MIN(other.number) FROM qos_policies other WHERE other.project_id = qos_policies.project_id AND other.is_default = TRUE);
CREATE UNIQUE INDEX qos_policies_default ON qos_policies (project_id) WHERE is_default = TRUE;
