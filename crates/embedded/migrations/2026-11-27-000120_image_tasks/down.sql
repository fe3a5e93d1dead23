DROP TABLE image_tasks;
