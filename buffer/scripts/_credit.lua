-- What fits a back end, and who may pass whom: as policy/credit.py has it. `need`: lane, kv, prefill, long.
local SHORT_SHARE, NOT_NOW = 0.5, 1099511627776
local function fits(need, load, credit)
  local first = first_class(need.lane)
  if load.jobs >= (first and credit.slots or math.max(1, credit.slots - credit.reserved)) then
    return false
  end
  local kv_room = credit.kv - (first and 0 or credit.kv_reserve)
  if credit.kv > 0 and need.kv > 0 and load.kv > 0 and load.kv + need.kv > kv_room then
    return false
  end
  if credit.long > 0 and need.long > 0 and load.long >= credit.long then
    return false
  end
  return not (credit.prefill > 0 and need.prefill > 0 and load.prefill > 0
    and load.prefill + need.prefill > credit.prefill)
end
-- Before all others whatever the scores say; `short`: what the short lanes have.
local function may_go_first(need, short, credit)
  if short.jobs + 1 > math.floor(credit.slots * SHORT_SHARE) then
    return false
  end
  return credit.kv == 0 or short.kv + need.kv <= credit.kv * SHORT_SHARE
end
-- Before one that has waited for too long and does not fit; `younger`: what those have that came as late.
local function may_pass(need, barred, younger, credit)
  local first = first_class(need.lane)
  local places = first and credit.slots - 1 or credit.slots - 1 - 2 * credit.reserved
  if younger.jobs + 1 > places - (first_class(barred.lane) and 0 or credit.reserved) then
    return false
  end
  if need.long > 0 and barred.long > 0 then
    return false
  end
  if credit.kv == 0 or need.kv == 0 then
    return true
  end
  local room = credit.kv - credit.kv_reserve - barred.kv
  return younger.kv + need.kv <= room - (first and 0 or credit.kv_reserve / 2)
end
