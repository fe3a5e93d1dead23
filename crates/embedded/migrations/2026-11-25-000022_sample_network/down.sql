-- A network made without a physical network cannot be told from others any more.
SELECT 1;
