-- The doorbells, and then the last id of each: whoever waits for something beyond them misses nothing.
local function last_ids()
  local notes = {}
  for _, lane in ipairs({'thinking', 'fast', 'normal', 'slow', 'background'}) do
    notes[#notes + 1] = P .. 'jobs:' .. lane
  end
  notes[#notes + 1] = P .. 'bell'
  for i = 1, 6 do
    local last = call('XREVRANGE', notes[i], '+', '-', 'COUNT', 1)[1]
    notes[#notes + 1] = last and last[1] or '0-0'
  end
  return notes
end
