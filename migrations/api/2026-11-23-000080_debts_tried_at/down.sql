ALTER TABLE debts DROP COLUMN tried_at;
