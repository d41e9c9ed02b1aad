-- The first of a sorted set that has not been looked at, and its score. An id begins at `from` of a member. Those that have been stay
-- where they are, so each is passed by once.
local passed = {}
local function unseen(key, from, looked)
  local at = passed[key] or 0
  while true do
    local top = call('ZRANGE', key, at, at + 16, 'WITHSCORES')
    for i = 1, #top, 2 do
      if not looked[string.sub(top[i], from)] then
        passed[key] = at
        return top[i], tonumber(top[i + 1])
      end
      at = at + 1
    end
    if #top < 34 then
      passed[key] = at
      return nil
    end
  end
end
