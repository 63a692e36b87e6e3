-- Whether the newest secret of a key was ever used. The answer of a rotation may be lost; when it is asked for once more,
-- the secret that nobody saw must not take the place of the one that programs still have. Of keys from before it is taken
-- for used, as it was.

ALTER TABLE api_keys ADD COLUMN secret_used BOOLEAN NOT NULL DEFAULT 1;
