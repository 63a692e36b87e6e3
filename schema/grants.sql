-- What each program's database user may do: everything it needs and nothing else. `audio-api grants` gives exactly
-- this to the accounts it is told (and takes away what goes beyond); api, worker and admin stand for them here.
-- Nobody changes or deletes rows of ledger, grants and admin_actions. Columns are named where a program writes only
-- some: a worker cannot give a task to another user, nor change what was asked for or reserved.
--
-- Credits move with every creation and every end of a task, so balances must be writable; that they moved by the rules
-- is what the ledger is for. INSERT … ON DUPLICATE KEY UPDATE wants UPDATE of every column it names (MariaDB): hence
-- whole rows of balances, workers, api_processes, usage_* and spend_days.

-- audio-api serve
GRANT SELECT ON schema_migrations TO api;
-- Where people sign up, on no plan; their addresses, and that they have ended their accounts.
GRANT SELECT, INSERT (id, email, created_at), UPDATE (email, deleted_at) ON users TO api;
GRANT SELECT, INSERT (id, user_id, key_hash, prefix, name, scopes, expires_at, created_at, spend_limit, spend_period),
    UPDATE (name, scopes, expires_at, last_used_at, deleted_at, key_hash, prefix, previous_hash, previous_prefix, previous_until,
    secret_used, spend_limit, spend_period)
  ON api_keys TO api;
-- How far they are counted moves on; from where on, and whose they are, nobody changes.
GRANT SELECT, INSERT, UPDATE (seq), DELETE ON spend_marks TO api;
GRANT SELECT, INSERT, UPDATE, DELETE ON spend_days TO api;
GRANT SELECT, INSERT, UPDATE ON balances TO api;
GRANT SELECT, INSERT ON ledger TO api;
GRANT SELECT ON grants TO api;
-- To cancel: of the final states it is the only one that needs neither an output nor a failure, and the constraints
-- of tasks allow none without.
-- Then, to delete: what was asked for is emptied by nobody else.
GRANT SELECT, INSERT, UPDATE (state, charged, epoch, worker, lease_until, wake_at, updated_at, attempt_state,
    attempt_ended_at, room, request, voice, deleted_at, output_deleted_at)
  ON tasks TO api;
GRANT SELECT, INSERT ON deletions TO api;
GRANT SELECT, UPDATE (state, ended_at) ON past_attempts TO api;
GRANT SELECT ON attempts TO api;
GRANT SELECT ON past_claims TO api;
-- Of a task that is canceled: its calls are lost, unless their worker tells.
GRANT INSERT ON provider_calls TO api;
GRANT SELECT, INSERT ON idempotency TO api;
GRANT SELECT, INSERT, UPDATE ON api_processes TO api;
-- Whose a session is, and when it began, nobody changes.
GRANT SELECT, INSERT, UPDATE (last_seen_at), DELETE ON sessions TO api;
GRANT SELECT, INSERT (token_hash, user_id, expires_at), UPDATE (used_at), DELETE ON login_links TO api;
GRANT SELECT, INSERT, UPDATE, DELETE ON passwords TO api;
-- Another key in the place of one that is there would be another person's.
GRANT SELECT, INSERT, UPDATE (counter, name, last_used_at), DELETE ON passkeys TO api;
GRANT SELECT, INSERT ON challenge_key TO api;
GRANT INSERT ON used_challenges TO api;
-- Who was invited, operators say.
GRANT SELECT, INSERT (token_hash, email, invited, expires_at), UPDATE (used_at) ON sign_ups TO api;
GRANT SELECT, INSERT, UPDATE, DELETE ON mail_changes TO api;
-- Whom an issuer has named, and whose account that is, nobody changes.
GRANT SELECT, INSERT, UPDATE (issuer, email, last_used_at), DELETE ON oidc_identities TO api;
GRANT SELECT, INSERT, DELETE ON issuer_refusals TO api;
GRANT SELECT, INSERT, UPDATE (next_seq), DELETE ON account_deletions TO api;
-- To tell operators who works.
GRANT SELECT, UPDATE (drain_asked_at) ON workers TO api;
-- What else operators do by the operations port, and its record.
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_overrides TO api;
GRANT SELECT, INSERT, UPDATE, DELETE ON service_switches TO api;
GRANT SELECT, INSERT ON admin_actions TO api;
GRANT SELECT ON release_window TO api;
GRANT SELECT ON usage_hours TO api;
GRANT SELECT ON usage_marks TO api;
GRANT SELECT ON service_minutes TO api;
GRANT SELECT ON service_minute_failures TO api;
GRANT SELECT ON audit_checks TO api;

-- audio-worker
GRANT SELECT ON schema_migrations TO worker;
GRANT SELECT, INSERT, UPDATE ON balances TO worker;
-- To read: what usage is rolled up from, and nothing of grants.
GRANT INSERT, SELECT (user_id, seq, kind, source_id, d_system, created_at) ON ledger TO worker;
-- A deadline may move, to come no later than it was meant to when the clock was set back.
GRANT SELECT, UPDATE (state, charged, epoch, claims, lost_leases, attempts, worker, lease_until, next_run_at,
    deadline_at, wake_at, output_key, output_bytes, output_sha256, output_checksum, duration_ms, failure, failure_message,
    updated_at, output_deleted_at, attempt_provider, attempt_epoch, attempt_state, attempt_detail, attempt_started_at,
    attempt_ended_at, room, lane)
  ON tasks TO worker;
GRANT SELECT, INSERT, UPDATE (state, detail, started_at, ended_at), DELETE ON past_attempts TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_calls TO worker;
GRANT SELECT, INSERT, DELETE ON past_claims TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON tickets TO worker;
GRANT SELECT, DELETE ON idempotency TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON workers TO worker;
GRANT SELECT, DELETE ON api_processes TO worker;
GRANT SELECT ON provider_overrides TO worker;
GRANT SELECT, INSERT, UPDATE ON provider_accounts TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_account_shares TO worker;
GRANT SELECT, UPDATE (after_wake_at, after_id, began_at) ON sweep_pass TO worker;
GRANT SELECT, UPDATE (size, crowds, tasks, pace, bulk_share, takes, express_wait, bulk_wait, needs, routes, routes_at,
    looked_at)
  ON release_window TO worker;
GRANT SELECT, UPDATE (done_to, attempts_to) ON retention TO worker;
GRANT SELECT, INSERT, DELETE ON deletions TO worker;
-- To forget what is over: no more of it than its age.
GRANT SELECT (id, created_at, last_seen_at), DELETE ON sessions TO worker;
GRANT SELECT (expires_at), DELETE ON login_links TO worker;
GRANT SELECT (expires_at), DELETE ON used_challenges TO worker;
GRANT SELECT (expires_at), DELETE ON sign_ups TO worker;
GRANT SELECT (expires_at), DELETE ON mail_changes TO worker;
GRANT SELECT, INSERT, UPDATE ON usage_hours TO worker;
GRANT SELECT, INSERT, UPDATE ON usage_marks TO worker;
GRANT SELECT, UPDATE (seq) ON spend_marks TO worker;
GRANT SELECT, INSERT, UPDATE ON spend_days TO worker;
-- What was is not changed.
GRANT SELECT, INSERT, DELETE ON service_minutes TO worker;
GRANT SELECT, INSERT, DELETE ON service_minute_failures TO worker;

-- audio-api admin
GRANT SELECT ON schema_migrations TO admin;
GRANT SELECT, INSERT, UPDATE (plan, purchased, email) ON users TO admin;
GRANT SELECT, INSERT, UPDATE ON balances TO admin;
GRANT SELECT, INSERT, UPDATE (deleted_at, key_hash, prefix, previous_hash, previous_prefix, previous_until, secret_used) ON api_keys TO admin;
GRANT SELECT, INSERT, DELETE ON spend_marks TO admin;
GRANT SELECT, DELETE ON spend_days TO admin;
GRANT SELECT, INSERT ON grants TO admin;
GRANT SELECT, INSERT ON ledger TO admin;
GRANT SELECT, UPDATE (state, charged, epoch, worker, lease_until, wake_at, updated_at, attempt_state,
    attempt_ended_at, room)
  ON tasks TO admin;
GRANT SELECT, UPDATE (state, ended_at) ON past_attempts TO admin;
GRANT SELECT ON attempts TO admin;
GRANT SELECT ON past_claims TO admin;
GRANT SELECT, INSERT ON provider_calls TO admin;
GRANT SELECT ON deletions TO admin;
GRANT SELECT ON idempotency TO admin;
GRANT SELECT, UPDATE (drain_asked_at) ON workers TO admin;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_overrides TO admin;
GRANT SELECT, INSERT, UPDATE, DELETE ON service_switches TO admin;
GRANT SELECT ON api_processes TO admin;
GRANT SELECT, INSERT, DELETE ON login_links TO admin;
GRANT SELECT (user_id), DELETE ON mail_changes TO admin;
-- To end them: by whom and from where they are used is their owner's to see.
GRANT SELECT (user_id), DELETE ON sessions TO admin;
GRANT SELECT, INSERT ON sign_ups TO admin;
GRANT SELECT ON release_window TO admin;
GRANT SELECT ON retention TO admin;
GRANT SELECT ON account_deletions TO admin;
GRANT SELECT ON usage_hours TO admin;
GRANT SELECT ON usage_marks TO admin;
GRANT SELECT, INSERT ON admin_actions TO admin;
-- To remember how far audits have come.
GRANT SELECT, INSERT, UPDATE ON audit_progress TO admin;
GRANT SELECT, INSERT, UPDATE ON audit_marks TO admin;
GRANT SELECT, INSERT, UPDATE, DELETE ON audit_runs TO admin;
GRANT SELECT, INSERT, DELETE ON audit_checks TO admin;
