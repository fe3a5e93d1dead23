DROP INDEX operations_by_saga;
