-- needs: core offline room
-- What became of lines of an offline batch. ARGV: now, batch, fence of its runner, most bytes of all (0: what is kept of them here is next to nothing), then for each line:
-- its number from 1 on, where it goes (output, errors), what it counts as (completed, failed, '' for neither), what is kept of it,
-- tokens: input, cached, output, reasoning.
-- Returns: how many of them were new; -1 if another runs it, or its lines are settled no more; -2 if there is no room: then nothing is done.
local id = ARGV[2]
local key, done = P .. 'batch:' .. id, P .. 'done:' .. id
local v = call('HMGET', key, 'status', 'fence')
if v[2] ~= ARGV[3] or (v[1] ~= 'in_progress' and v[1] ~= 'cancelling') then
  return -1
end
local new, seen, bytes = {}, {}, 0
for i = 5, #ARGV, 8 do
  local number = ARGV[i]
  if not seen[number] and call('GETBIT', done, tonumber(number) - 1) == 0 then
    seen[number] = true
    new[#new + 1] = i
    bytes = bytes + #ARGV[i + 3]
  end
end
if #new == 0 then
  return 0
end
if tonumber(ARGV[4]) > 0 and not take(id, bytes, now + WORK_S * 1000000, tonumber(ARGV[4])) then
  return -2
end
for _, i in ipairs(new) do
  call('SETBIT', done, tonumber(ARGV[i]) - 1, 1)
  call('RPUSH', P .. ARGV[i + 1] .. ':' .. id, ARGV[i + 3])
  if ARGV[i + 2] ~= '' then
    call('HINCRBY', key, ARGV[i + 2], 1)
  end
  for at, kind in ipairs({'input', 'cached', 'output', 'reasoning'}) do
    local tokens = tonumber(ARGV[i + 3 + at])
    if tokens > 0 then
      call('HINCRBY', key, 'tokens:' .. kind, tokens)
    end
  end
end
for _, part in ipairs({'done:', 'output:', 'errors:'}) do
  call('EXPIRE', P .. part .. id, WORK_S)
end
return #new
