-- needs: core job reply place finish count seek owners notes flight credit queues places elsewhere memory yield sending pulling
-- ARGV: now, worker, backend, want, slots, kv, prefill, long, reserved slots, kv reserve, segment, pause, lease, expired end, goes on
-- (1: it can with what others began), names, lanes, memory, models: the number of names of back ends, these, the number of lanes,
-- these, the number of words on memory (0: it swaps no models), these (how long ago a worker looked, the models it found), the models.
-- With names: only jobs that one of these has just failed and leaves to others. Returns: granted jobs, waiting, notes (stream, last
-- id, …), further pieces of jobs that this worker has (id, fence, up to which token), and after how many
-- microseconds something may go for which it is only too early (0: none).
return pulled(ARGV)
