-- ARGV: kind … (state, worker, gateway). Returns: for each, what was told and has not run out, by name.
local told = {}
for at, kind in ipairs(ARGV) do
  local names, values = redis.call('ZRANGE', KEYS[1] .. kind .. 's', 0, -1), {}
  table.sort(names)
  for _, name in ipairs(names) do
    local value = redis.call('GET', KEYS[1] .. kind .. ':' .. name)
    if value then
      values[#values + 1] = value
    else
      redis.call('ZREM', KEYS[1] .. kind .. 's', name)
    end
  end
  told[at] = values
end
return told
