-- When somebody last tried to pay it: conductors beside each other try it no oftener than one.
ALTER TABLE debts ADD COLUMN tried_at TIMESTAMP;
