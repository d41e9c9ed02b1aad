-- How much of a prompt is read at a time, as policy/segment.py has it.
local QUARTERS, EVEN_TOKENS = 4, 24000
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
