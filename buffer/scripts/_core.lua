-- KEYS[1] is what all names of the pool begin with. ARGV[1] is 0, or the instant in microseconds that a test gives.
local P = KEYS[1]
-- A command's numbers are given in digits: what a script prints itself, or has as a string, costs half of what the server prints for it.
local call = redis.call
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
-- A whole number. Lua would print a fence as 1.79e+15; `%d` takes half as long as `%.0f`, and holds too little on a server of 32 bits.
local format = string.format
local WHOLE = format('%d', 2 ^ 52) == '4503599627370496' and '%d' or '%.0f'
local function int(x)
  return format(WHOLE, x)
end
local NOW = int(now)
