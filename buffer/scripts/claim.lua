-- needs: core claim
-- One more client for what an idempotency key stands for. KEYS: the key's hash. ARGV: now, job, pool, digest of the request, client,
-- whether it may leave (1), lifetime, the job that it stands for and that gave no answer ('' = none).
-- Returns: new, other (that request was another), or job, its pool, and how long ago it was claimed.
return claim(P, ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1', ARGV[7], ARGV[8])
