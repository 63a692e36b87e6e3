-- Old files may be deleted (OUTPUT_RETENTION_DAYS); the task stays and says so.

ALTER TABLE tasks ADD COLUMN output_deleted_at DATETIME(6) NULL;

-- One row: the files of all tasks up to this id are deleted. Ids sort by creation time.
CREATE TABLE retention (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  done_to BINARY(16) NOT NULL,
  CONSTRAINT retention_one_row CHECK (id = 1)
) ENGINE=InnoDB;

INSERT INTO retention (id, done_to) VALUES (1, REPEAT(CHAR(0), 16));
