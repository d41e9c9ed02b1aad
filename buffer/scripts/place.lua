-- needs: core job
-- ARGV: now, id. Returns: state, jobs of its model ahead of it by score, lane, arrival, back end, fence.
local j = read(ARGV[2])
if not j then
  return {'gone', 0, '', '0', '', '0'}
end
local ahead = 0
if j.st == 'waiting' then
  for _, lane in ipairs({'thinking', 'fast', 'normal', 'slow', 'background'}) do
    if lane ~= 'background' or j.lane == 'background' then
      ahead = ahead + call('ZCOUNT', P .. 'wait:' .. j.model .. ':' .. lane, '-inf', '(' .. int(j.score))
    end
  end
end
return {j.st, ahead, j.lane, int(j.arr), j.backend, int(j.fence)}
