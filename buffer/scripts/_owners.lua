-- Whose jobs run at a back end. Counted only where somebody who waits has a share.
local function owners_at(load_key)
  local places
  local function count()
    places = {}
    for _, id in ipairs(call('HKEYS', load_key)) do
      local owner = call('HGET', P .. 'job:' .. id, 'owner') or ''
      places[owner] = (places[owner] or 0) + 1
    end
  end
  return {
    -- Whether a job's owner has as many places as its share of `slots` is, in thousandths.
    over = function(j, slots)
      local share = j.share
      if share > 0 and not places then
        count()
      end
      return share > 0 and (places[j.owner] or 0) >= math.ceil(share * slots / 1000)
    end,
    take = function(j)
      if places then
        places[j.owner] = (places[j.owner] or 0) + 1
      end
    end,
  }
end
-- Whether nobody but `owner` is among `others`.
local function alone(owner, others)
  for other in pairs(others) do
    if other ~= owner then
      return false
    end
  end
  return true
end
