-- Lists ask which servers moved while they were read.
CREATE INDEX instance_mappings_by_update ON instance_mappings (updated_at);
