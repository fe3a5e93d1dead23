-- What was erased does not come back.
SELECT 1;
