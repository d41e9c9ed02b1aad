-- needs: core shelf
-- Kept answers are forgotten, and those that are being made are not kept. ARGV: now, the model ('*' = all), for how long answers that were
-- begun before are to be known. Returns how many there were.
local model, count = ARGV[2], 0
call('HSET', P .. 'purged', model, int(now))
call('EXPIRE', P .. 'purged', tonumber(ARGV[3]))
local about = call('HGETALL', P .. 'about')
for i = 1, #about, 2 do
  if model == '*' or string.match(about[i + 1], '^%d+ (.*)$') == model then
    count = count + drop(about[i])
  end
end
return count
