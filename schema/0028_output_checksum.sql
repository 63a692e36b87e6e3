-- What the file of a task was when it was charged for: XXH3 of 128 bits (common/base/checksum.h). It was SHA-256 until
-- now, 12 us for each 17 KB, the dearest of all that a worker does with an output; and it has to tell files apart, not
-- to withstand anybody. Programs of the step before still write that: so the right to goes one release later, and the
-- column stays for as long as there are rows of theirs.

ALTER TABLE tasks ADD COLUMN output_checksum BINARY(16) NULL;

-- 16 bytes less are to come (0003_task_rows.sql). To rows that programs of the step before end, 16 more than there is
-- room for: a page may split, no more.
ALTER TABLE tasks ALTER COLUMN room SET DEFAULT (REPEAT(' ', 203));
