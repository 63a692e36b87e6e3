-- What a key may spend at most in a day or a month of UTC, and how far what it has spent is counted. It is counted from
-- the ledger: a creation with a limited key reads it under the lock of its user's balance, and writes nothing for it.

ALTER TABLE api_keys
  ADD COLUMN spend_limit BIGINT NULL,              -- null: none
  ADD COLUMN spend_period TINYINT UNSIGNED NULL,   -- 1 day 2 month
  ADD CONSTRAINT api_keys_spend CHECK ((spend_limit IS NULL) = (spend_period IS NULL) AND
    (spend_limit IS NULL OR (spend_limit > 0 AND spend_period IN (1, 2))));

-- One row for each key with a limit, made with it. Of the generations whose hold comes after row after_seq of the user's
-- ledger, spend_days has what the ledger says up to row seq; what is behind it is read from there.
CREATE TABLE spend_marks (
  key_id BINARY(16) NOT NULL PRIMARY KEY,
  user_id BINARY(16) NOT NULL,
  after_seq BIGINT UNSIGNED NOT NULL,
  seq BIGINT UNSIGNED NOT NULL,
  KEY k_user (user_id),
  CONSTRAINT spend_marks_order CHECK (seq >= after_seq)
) ENGINE=InnoDB;

-- By the day in which a generation was created: what is charged for it, and until then what it reserves.
CREATE TABLE spend_days (
  key_id BINARY(16) NOT NULL,
  day DATE NOT NULL,
  spent BIGINT NOT NULL,
  PRIMARY KEY (key_id, day)
) ENGINE=InnoDB;
