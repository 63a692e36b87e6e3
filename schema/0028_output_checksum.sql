-- What the file of a task was when it was charged for: XXH3 of 128 bits (common/base/checksum.h). It was SHA-256 until
-- now, 12 us for each 17 KB, the dearest of all that a worker does with an output; and it has to tell files apart, not
-- to withstand anybody. Programs of the step before still write that, so the column and the right to write it go one
-- release later.

ALTER TABLE tasks ADD COLUMN output_checksum BINARY(16) NULL AFTER output_sha256;

-- 16 bytes less are to come (0003_task_rows.sql).
ALTER TABLE tasks ALTER COLUMN room SET DEFAULT (REPEAT(' ', 203));
