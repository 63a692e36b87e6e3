-- What a task must have left when it begins, in seconds, for those providers that are asked first: each worker tells what
-- they want, and the look that writes the pace passes on the most of all. 0 is of a worker of the release before, and
-- of one that does not know yet: then it is what follows from the mean of all calls, which is less where not all are
-- of a length.

ALTER TABLE workers ADD COLUMN needs INT UNSIGNED NOT NULL DEFAULT 0;
ALTER TABLE release_window ADD COLUMN needs INT UNSIGNED NOT NULL DEFAULT 0;
