DROP TABLE clear_contexts;
