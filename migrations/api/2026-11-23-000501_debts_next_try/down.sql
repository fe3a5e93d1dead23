ALTER TABLE debts DROP COLUMN next_try_at;
