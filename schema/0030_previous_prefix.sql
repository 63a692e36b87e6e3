-- How the secret began that a key had before its last rotation, and which may still work: by that an operator finds the
-- key when that one was seen where it should not be.

ALTER TABLE api_keys ADD COLUMN previous_prefix VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NULL;
