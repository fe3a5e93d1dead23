-- A saga lets go of its server, and is taken over, by its own id; it has one server.
CREATE UNIQUE INDEX operations_by_saga ON operations (saga_id);
