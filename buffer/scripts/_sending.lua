-- What a pull sends to its back end: jobs, and further pieces of prompts. `pull`: worker, backend, lease, pause, credit, flight, places of
-- owners, memory (nil: it swaps no models). `read_later`: something would go if less were being read; `next_at`: until then
-- nothing more is sent to be read, but alone.
-- `careful_later`: so would background work, which is read with care while people are about, and for a minute after them; until
-- `careful_at` nothing more of it is.
local function sending_of(pull)
  local credit, flight, memory = pull.credit, pull.flight, pull.memory
  local load_key, pace_key, heed_key = P .. 'load:' .. pull.backend, P .. 'pace:' .. pull.backend, P .. 'heed:' .. pull.backend
  local till, tags, sending = int(now + pull.lease), {}, {granted = {}, pieces = {}, read_later = false}
  sending.next_at = credit.segment > 0 and tonumber(call('GET', pace_key) or '0') or 0
  -- So many tokens, or one that holds back the next for the whole pause.
  local function sent_to_be_read(tokens)
    if credit.segment > 0 then
      sending.next_at = paced(pace_key, sending.next_at, credit.segment, pull.pause, tokens)
    end
  end
  local heed
  local function heeds()
    if not heed then
      local told = call('HMGET', heed_key, 'until', 'next')
      heed = {till = tonumber(told[1] or '0'), careful_at = tonumber(told[2] or '0')}
    end
    return heed
  end
  function sending.careful(lane)
    return lane == 'background' and credit.segment > 0 and (now < heeds().till or flight.has_people())
  end
  -- Whether background work has to be read with care, and therefore not now.
  function sending.waits_behind(lane, tokens)
    if not sending.careful(lane) then
      return false
    end
    if flight.reads_people() then
      return true
    end
    if now < heeds().careful_at then
      sending.careful_at = heeds().careful_at
      return true
    end
    local under_way = flight.all.prefill
    return under_way > 0 and under_way + tokens > CARE_AHEAD * careful_segment(credit.segment)
  end
  local function sent_with_care()
    heeds().careful_at, heed.changed = now + pull.pause * CARE_PAUSE, true
  end
  function sending.measure()
    measure(credit, flight.all, now < sending.next_at)
  end
  local function upto_of(j)
    return next_upto(j.lane, j.prompt, j.prompt - j.prefill, j.splits and j.base == '', credit, sending.careful(j.lane))
  end
  -- What a job would take if it went now.
  function sending.need(j)
    local tokens = upto_of(j) - j.prompt + j.prefill
    if j.lane == 'fast' then
      -- Nobody is to wait for it, nor it for anybody.
      tokens = 0
    elseif not sending.careful(j.lane) and flight.reads_before(j.lane) then
      -- One prompt of a lane is read after the other: side by side both would be late.
      tokens = NOT_NOW
    end
    return {lane = j.lane, kv = j.kv, prefill = tokens, long = j.long}
  end
  -- Sends a job whose body is there.
  function sending.grant(j)
    local prefix, spent, body = unpack(call('HMGET', j.key, 'prefix', 'spent', 'body'))
    if not body then
      erase(j)
      return
    end
    out(j)
    j.backend, j.upto, j.had = pull.backend, upto_of(j), j.prompt - j.prefill
    j.prefix, j.spent, j.body = prefix, spent, body
    sending.granted[#sending.granted + 1] = granted_to(pull.worker, till, j)
    frame(j, 0, 'start', j.base .. ' ' .. j.backend)
    if j.lane == 'background' then
      -- Asked to give way, it has: this time it was not asked yet.
      call('HDEL', j.key, 'yield')
    end
    tags[j.model .. ':' .. j.lane] = j.tag
    flight.take({
      id = j.id, kv = j.kv, prefill = j.lane == 'fast' and 0 or j.upto - j.had, long = j.long, lane = j.lane, arr = j.arr,
      score = j.score, prompt = j.prompt, upto = j.upto, had = j.had,
    })
    if memory then
      memory.sent(j)
    end
    if sending.careful(j.lane) then
      sent_with_care()
    elseif j.lane ~= 'fast' then
      sent_to_be_read(j.upto - j.had)
    end
    if j.lane ~= 'background' and credit.segment > 0 then
      heeds().till, heed.changed = now + HEED, true
    end
    pull.places.take(j)
  end
  -- Whether the next piece of a prompt need not wait for another prompt to be read.
  function sending.in_turn(half)
    if sending.careful(half.lane) then
      return half.upto <= half.had
    end
    return not flight.reads_before(half.lane)
  end
  -- The next piece of a prompt, if it may go now.
  function sending.go_on(half)
    sending.read_later = true
    local careful = sending.careful(half.lane)
    local upto = next_upto(half.lane, half.prompt, half.upto, true, credit, careful)
    if credit.prefill > 0 and flight.all.prefill > 0 and flight.all.prefill + upto - half.upto > credit.prefill then
      return false
    end
    if careful and sending.waits_behind(half.lane, upto - half.upto) then
      return false
    end
    local j = read(half.id)
    if not j then
      return false
    end
    if careful then
      sent_with_care()
    else
      sent_to_be_read()
    end
    flight.send(half, upto)
    j.upto = upto
    call('HSET', j.key, 'upto', int(upto))
    call('HSET', load_key, j.id, share(j))
    local told = upto < half.prompt and int(upto) or '0'
    if j.worker == pull.worker then
      sending.pieces[#sending.pieces + 1] = {j.id, int(j.fence), told}
    else
      redis.pcall('XADD', P .. 'ctl:' .. j.worker, 'NOMKSTREAM', '*', 'k', 'piece', 'id', j.id, 'f', int(j.fence), 'u', told)
    end
    return true
  end
  -- For the next pulls: who is to be heeded, and the clocks of the queues.
  function sending.clocks()
    if heed and heed.changed then
      call('HSET', heed_key, 'until', int(heed.till), 'next', string.format('%.17g', heed.careful_at))
      call('EXPIRE', heed_key, HEED_S)
    end
    for name, tag in pairs(tags) do
      local fair = P .. 'fair:' .. name
      clock(fair, tag)
    end
  end
  return sending
end
