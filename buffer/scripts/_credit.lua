-- What fits a back end, and who may pass whom: as policy/credit.py and policy/segment.py have it. `need`: lane, kv, prefill, long.
local SHORT_SHARE, QUARTERS, EVEN_TOKENS, NOT_NOW = 0.5, 4, 24000, 1099511627776
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
-- Tokens of the piece that follows `had` ones, of a back end with so much of its memory free.
local function piece_tokens(had, segment, free)
  local size = math.floor(segment * EVEN_TOKENS / (EVEN_TOKENS + had) * free)
  local quarter = math.max(1, math.floor(segment / QUARTERS))
  return math.max(quarter, size - size % quarter)
end
local CARE, CARE_AHEAD, CARE_PAUSE = 8, 2, 0.5
local function careful_segment(segment)
  return math.max(1, math.floor(segment / CARE))
end
-- Up to which token the next piece goes; the prompt's length: it is the last.
-- `careful`: background work while people are about.
local function next_upto(lane, prompt, had, splits, credit, careful)
  if not splits or lane == 'fast' or credit.segment == 0 then
    return prompt
  end
  local segment = careful and careful_segment(credit.segment) or credit.segment
  local size = careful and segment or piece_tokens(had, segment, credit.free)
  local last = math.floor(math.floor(segment / QUARTERS) / 2)
  return prompt - had <= size + last and prompt or had + size
end
-- How much of the memory is free now, and how much may be read at a time. `early`: something has just been sent to be read.
local function measure(credit, load, early)
  if credit.segment > 0 then
    credit.free = credit.kv > 0 and 1 - load.kv / credit.kv or 1
    credit.prefill = early and 1 or 2 * piece_tokens(0, credit.segment, credit.free)
  end
end
