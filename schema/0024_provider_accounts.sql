-- The limit of a provider's account holds for all workers together: each says here how many of its places it takes.

-- One row for each account that a providers file names. Who changes shares of an account changes its row first, so that
-- one worker at a time does; the number tells one renewal from another, without a clock.
CREATE TABLE provider_accounts (
  account VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  renewals BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;

-- Renewed every second or so; what a worker that was killed has left, others delete.
CREATE TABLE provider_account_shares (
  account VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  worker BINARY(16) NOT NULL,
  places INT UNSIGNED NOT NULL,                -- It has no more calls under way,
  wanted INT UNSIGNED NOT NULL,                -- and would have so many.
  waits_ms BIGINT UNSIGNED NOT NULL,           -- For how long the first has waited of those it may not begin.
  renewed BIGINT UNSIGNED NOT NULL,            -- The account's number then.
  PRIMARY KEY (account, worker)
) ENGINE=InnoDB;
