DROP TABLE volume_messages;
