DROP TABLE image_members;
DROP TABLE images;
