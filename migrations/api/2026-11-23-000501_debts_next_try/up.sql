-- The time before which nobody tries a debt again. Without one, it is due.
ALTER TABLE debts ADD COLUMN next_try_at TIMESTAMP;
