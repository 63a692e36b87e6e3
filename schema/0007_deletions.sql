-- What its owner deletes: the request is emptied at once, the file follows within a minute; task, price and ledger
-- rows stay.

-- With it the request is empty.
ALTER TABLE tasks ADD COLUMN deleted_at DATETIME(6) NULL;

-- Whose file may still be there: written with the deletion, gone once the file is. So no crash forgets one.
CREATE TABLE deletions (
  task_id BINARY(16) NOT NULL PRIMARY KEY,
  deleted_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
