DROP TABLE group_moves;
