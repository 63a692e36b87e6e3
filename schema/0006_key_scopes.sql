-- What a key may do beside reading, and until when it works. Keys that are there keep what they could do, create
-- generations, and get no more: a key that lies in a client's program must not become one that makes other keys.

ALTER TABLE api_keys
  ADD COLUMN scopes TINYINT UNSIGNED NOT NULL DEFAULT 1,  -- 1 generate + 2 manage; 0: only reads
  ADD COLUMN expires_at DATETIME(6) NULL,                 -- null: never
  ADD KEY k_live (user_id, deleted_at),                   -- a user's keys, past any number of deleted ones
  ADD CONSTRAINT api_keys_scopes CHECK (scopes BETWEEN 0 AND 3);

ALTER TABLE api_keys DROP KEY k_user;
