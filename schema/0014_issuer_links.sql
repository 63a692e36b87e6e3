-- How somebody came in, and which issuer may bring him in.

-- For how long from created_at on it is fresh. An issuer may have let its person in without asking him anything: then it
-- is less than the ten minutes of whoever has shown us who he is, or nothing.
ALTER TABLE sessions ADD COLUMN fresh_seconds SMALLINT UNSIGNED NOT NULL DEFAULT 600;

-- For the owner to see: what the issuer calls itself, the address that it last named, in lower case, when it last brought
-- him in. NULL: not since this is kept.
ALTER TABLE oidc_identities
  ADD COLUMN issuer VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  ADD COLUMN email VARCHAR(254) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  ADD COLUMN last_used_at DATETIME(6) NULL;

-- Who has unlinked an issuer: from then on his address alone links him to nobody there.
CREATE TABLE issuer_refusals (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  refused_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
