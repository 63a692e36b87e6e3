-- Who has signed in to the console, by what, and from where. Of a token, as of a key, there is only its SHA-256: 256
-- random bits need no slow hash. A password is made by a person, so it has one.

CREATE TABLE sessions (
  id BINARY(16) NOT NULL PRIMARY KEY,  -- UUIDv7: the oldest come first
  user_id BINARY(16) NOT NULL,
  token_hash BINARY(32) NOT NULL,      -- SHA-256 of what the cookie holds
  created_at DATETIME(6) NOT NULL,     -- when its owner signed in; from then on it is fresh for a while
  last_seen_at DATETIME(6) NOT NULL,   -- to the minute
  user_agent VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  address VARCHAR(45) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  UNIQUE KEY u_hash (token_hash),
  KEY k_user (user_id),
  KEY k_seen (last_seen_at)
) ENGINE=InnoDB;

-- What an operator hands out. One that is used stays until its time is over, so that it is known to be used.
CREATE TABLE login_links (
  token_hash BINARY(32) NOT NULL PRIMARY KEY,
  user_id BINARY(16) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  used_at DATETIME(6) NULL,
  KEY k_expires (expires_at)
) ENGINE=InnoDB;

-- A table of its own: of the programs' users only the API's may read it.
CREATE TABLE passwords (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  encoded VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- argon2id with its salt and parameters
  changed_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
