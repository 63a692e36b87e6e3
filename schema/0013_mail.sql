-- Mail addresses that show by a link that somebody reads them, accounts that people make by one, and accounts that end.

-- Links that make an account when they are used, and sign in to it: of operators' invitations, and mailed to whoever
-- asks where anybody may. Apart from login_links, so that programs of the release before find none of them.
CREATE TABLE sign_ups (
  token_hash BINARY(32) NOT NULL PRIMARY KEY,
  email VARCHAR(254) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- lower case
  invited TINYINT UNSIGNED NOT NULL,  -- 1: an operator made it
  expires_at DATETIME(6) NOT NULL,
  used_at DATETIME(6) NULL,
  KEY k_email (email),
  KEY k_expires (expires_at),
  CONSTRAINT sign_ups_invited CHECK (invited IN (0, 1))
) ENGINE=InnoDB;

-- The address that a user wants instead of his own, until he opens the link that was mailed to it: one at a time.
CREATE TABLE mail_changes (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  token_hash BINARY(32) NOT NULL,
  email VARCHAR(254) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- lower case
  expires_at DATETIME(6) NOT NULL,
  KEY k_expires (expires_at)
) ENGINE=InnoDB;

-- Whom an issuer of OpenID Connect has named, and whose account that is: SHA-256 of issuer and subject.
CREATE TABLE oidc_identities (
  id_hash BINARY(32) NOT NULL PRIMARY KEY,
  user_id BINARY(16) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  KEY k_user (user_id)
) ENGINE=InnoDB;

-- When its owner ended the account. The row stays, for the books; its address is no longer his.
ALTER TABLE users ADD COLUMN deleted_at DATETIME(6) NULL;

-- Of which ended accounts something is still to be wiped: written with the end, gone once nothing is left.
CREATE TABLE account_deletions (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  asked_at DATETIME(6) NOT NULL,
  next_seq BIGINT UNSIGNED NOT NULL  -- of the ledger: the tasks of the rows before it are wiped
) ENGINE=InnoDB;
