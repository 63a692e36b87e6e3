-- What the last audit found, so that monitors can be told of it: a row for each check, replaced together by each audit
-- that comes to its end. So the time of the rows is that of the last one.

CREATE TABLE audit_checks (
  name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,  -- its number, like I1
  bad BIGINT UNSIGNED NOT NULL,   -- rows or users that break it
  ended_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
