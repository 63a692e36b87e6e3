-- Passkeys: public keys by which somebody signs in to the console. What makes the signatures never leaves its owner's
-- device, so nothing here is a secret but challenge_key.

CREATE TABLE passkeys (
  id BINARY(16) NOT NULL PRIMARY KEY,
  user_id BINARY(16) NOT NULL,
  credential_id VARBINARY(1023) NOT NULL,  -- what the authenticator calls it
  public_key VARBINARY(1024) NOT NULL,     -- SubjectPublicKeyInfo
  counter INT UNSIGNED NOT NULL,           -- of its signatures, as last seen; 0 where it does not count them
  synced TINYINT UNSIGNED NOT NULL,        -- it may be on several devices, which no authenticator takes back
  name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at DATETIME(6) NOT NULL,
  last_used_at DATETIME(6) NULL,
  UNIQUE KEY u_credential (credential_id),
  KEY k_user (user_id)
) ENGINE=InnoDB;

-- Challenges are sealed by this key, so that none has to be kept before it is answered, whoever asks for how many. One
-- row, made by the first process that needs it: all processes know each other's challenges.
CREATE TABLE challenge_key (
  only_one TINYINT UNSIGNED NOT NULL PRIMARY KEY,  -- 1
  secret BINARY(32) NOT NULL
) ENGINE=InnoDB;

-- Those that were answered rightly, so that no answer counts twice. Kept until their time is long over.
CREATE TABLE used_challenges (
  challenge_hash BINARY(32) NOT NULL PRIMARY KEY,  -- SHA-256
  expires_at DATETIME(6) NOT NULL,
  KEY k_expires (expires_at)
) ENGINE=InnoDB;

-- Whoever sets a password ends the links of his that nobody has used: without an index that would look at, and lock,
-- everybody's.
ALTER TABLE login_links ADD KEY k_user (user_id);
