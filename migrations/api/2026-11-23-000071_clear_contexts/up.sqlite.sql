-- Sagas of releases that kept a guest's password in the clear, until the next start has erased it from them and from their debts.
CREATE TABLE clear_contexts (
    saga_id TEXT NOT NULL PRIMARY KEY
);
INSERT INTO clear_contexts (saga_id)
SELECT id FROM sagas WHERE kind IN ('create', 'rebuild') AND context LIKE '%"admin_pass":"%';
