DROP TABLE group_places;
