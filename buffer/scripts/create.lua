-- needs: core
-- A new inbox. ARGV: now, name. Returns 1 if it is new.
local key = P .. 'inbox:' .. ARGV[2]
if call('EXPIRE', key, 15) == 1 then
  return 0
end
call('XADD', key, '*', 'k', 'open')
call('EXPIRE', key, 15)
return 1
