-- needs: core press job
-- Word to the worker that runs a job. ARGV: now, id, pause or go. Returns 1 if there is one to hear it.
local j = read(ARGV[2])
if not j or j.st ~= 'running' then
  return 0
end
local there = call('XADD', P .. 'ctl:' .. j.worker, 'NOMKSTREAM', 'MAXLEN', 1000, '*', 'k', ARGV[3], 'id', j.id, 'f', int(j.fence))
return there and 1 or 0
