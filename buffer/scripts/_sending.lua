-- What a pull sends to its back end: jobs, and further pieces of prompts. `pull`: worker, backend, lease, pause, credit, flight, places of
-- owners, memory (nil: it swaps no models). `read_later`: something would go if less were being read; `next_at`: until then
-- nothing more is sent to be read, but alone.
local PACE_S, LARGE_BODY = 60, 65536
local function sending_of(pull)
  local credit, flight, memory = pull.credit, pull.flight, pull.memory
  local load_key, pace_key = P .. 'load:' .. pull.backend, P .. 'pace:' .. pull.backend
  local tags, sending = {}, {granted = {}, pieces = {}, read_later = false}
  sending.next_at = credit.segment > 0 and tonumber(call('GET', pace_key) or '0') or 0
  -- So many tokens, or one that holds back the next for the whole pause.
  local function sent_to_be_read(tokens)
    if credit.segment > 0 then
      local share = tokens and math.min(1, tokens / math.max(1, math.floor(credit.segment / QUARTERS))) or 1
      sending.next_at = math.max(sending.next_at, now + pull.pause * share)
      call('SET', pace_key, string.format('%.17g', sending.next_at), 'EX', PACE_S)
    end
  end
  function sending.measure()
    measure(credit, flight.all, now < sending.next_at)
  end
  local function upto_of(j)
    return next_upto(j.lane, j.prompt, j.prompt - j.prefill, j.splits and j.base == '', credit)
  end
  -- What a job would take if it went now.
  function sending.need(j)
    local tokens = upto_of(j) - j.prompt + j.prefill
    if j.lane == 'fast' then
      -- Nobody is to wait for it, nor it for anybody.
      tokens = 0
    elseif flight.reads_before(j.lane) then
      -- One prompt of a lane is read after the other: side by side both would be late.
      tokens = NOT_NOW
    end
    return {lane = j.lane, kv = j.kv, prefill = tokens, long = j.long}
  end
  function sending.grant(j)
    local more = call('HMGET', j.key, 'prefix', 'spent', 'started', 'tries', 'body')
    j.backend, j.upto, j.had, j.read = pull.backend, upto_of(j), j.prompt - j.prefill, 0
    out(j)
    raise(j)
    call('HSET', j.key, 'st', 'running', 'worker', pull.worker, 'backend', pull.backend, 'started', more[3] or int(now), 'tries',
      int((more[4] or 0) + 1), 'upto', int(j.upto), 'had', int(j.had))
    if j.lane == 'background' then
      -- Asked to give way, it has: this time it was not asked yet.
      call('HDEL', j.key, 'yield')
    end
    call('ZADD', P .. 'lease', int(now + pull.lease), j.id)
    call('HSET', load_key, j.id, share(j))
    tags[j.model .. ':' .. j.lane] = j.tag
    flight.take({
      id = j.id, kv = j.kv, prefill = j.lane == 'fast' and 0 or j.upto - j.had, long = j.long, lane = j.lane, arr = j.arr,
      score = j.score, prompt = j.prompt, upto = j.upto, had = j.had,
    })
    if memory then
      memory.sent(j)
    end
    if j.lane ~= 'fast' then
      sent_to_be_read(j.upto - j.had)
    end
    pull.places.take(j)
    mark(j, 0, 'start', j.base)
    frame(j, 0, 'start', j.base .. ' ' .. pull.backend)
    -- What was asked goes along, but for pictures: they would hold up the store's other clients.
    sending.granted[#sending.granted + 1] = {
      j.id, int(j.fence), j.model, j.lane, j.user, j.inbox, more[1] or '', j.base, more[2] or '0', int(j.fails),
      int(j.taken), int(j.arr), int(now - j.arr), int(j.kv), int(j.prefill), int(j.long), j.det and '1' or '0',
      int(j.deadline), int(j.cost), int(j.prompt), j.upto < j.prompt and int(j.upto) or '0',
      #more[5] <= LARGE_BODY and more[5] or '',
    }
  end
  -- The next piece of a prompt, if it may go now.
  function sending.go_on(half)
    sending.read_later = true
    local upto = next_upto(half.lane, half.prompt, half.upto, true, credit)
    if credit.prefill > 0 and flight.all.prefill > 0 and flight.all.prefill + upto - half.upto > credit.prefill then
      return false
    end
    local j = read(half.id)
    if not j then
      return false
    end
    sent_to_be_read()
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
  -- The clocks of the queues; users whose turn lies behind them are as good as new.
  function sending.clocks()
    for name, tag in pairs(tags) do
      local fair = P .. 'fair:' .. name
      call('ZREMRANGEBYSCORE', fair, '-inf', int(tag))
      call('ZADD', fair, int(tag), 'V')
      call('EXPIRE', fair, 3600)
    end
  end
  return sending
end
