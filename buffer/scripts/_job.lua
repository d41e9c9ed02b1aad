-- A job's record, without its texts. nil: there is none (a body put ahead of its submit is none yet).
local JOB_S, DONE_JOB_S, DONE_REPLY_S, CANCELLED_REPLY_S = '3600', '600', '60', '2'
local function read(id)
  local key = P .. 'job:' .. id
  local v = call('HMGET', key, 'st', 'fence', 'n', 'model', 'lane', 'user', 'inbox', 'entry', 'backend', 'det', 'cancel', 'tag', 'cost',
    'worker', 'score', 'due', 'arr', 'kv', 'prefill', 'long', 'deadline', 'taken', 'fails', 'read', 'inputs', 'left', 'left_until',
    'timeout', 'able_until', 'base', 'prompt', 'splits', 'upto', 'had', 'near', 'behind', 'floor', 'owner', 'share', 'started', 'tries')
  if not v[1] then
    return nil
  end
  return {
    id = id, key = key, st = v[1], fence = tonumber(v[2]), under = v[2], n = tonumber(v[3]), model = v[4], lane = v[5],
    user = v[6], inbox = v[7], entry = v[8] or '', backend = v[9] or '', det = v[10] == '1', cancel = v[11] or '', tag = tonumber(v[12]),
    cost = tonumber(v[13]), worker = v[14] or '', score = tonumber(v[15]), due = tonumber(v[16]), arr = tonumber(v[17]),
    kv = tonumber(v[18]), prefill = tonumber(v[19]), long = tonumber(v[20]), deadline = tonumber(v[21]), taken = tonumber(v[22]),
    fails = tonumber(v[23]), read = tonumber(v[24] or '0'), inputs = tonumber(v[25] or '0'), left = v[26] or '',
    left_until = tonumber(v[27] or '0'), timeout = tonumber(v[28] or '120000000'), able_until = tonumber(v[29] or '0'),
    base = v[30] or '', prompt = tonumber(v[31] or v[19]), splits = v[32] == '1', upto = tonumber(v[33] or '0'),
    had = tonumber(v[34] or '0'), near = v[35] or '', behind = v[36] or '', floor = v[37], owner = v[38] or '',
    share = tonumber(v[39] or '0'), started = v[40], tries = tonumber(v[41] or '0'),
  }
end
-- What a running job takes of its back end: of prefill, what was sent to be read and is not yet; for `fast`, nobody is to wait.
local function share(j)
  local had = j.had
  if j.read == j.fence then
    had = j.upto
  end
  local prefill = j.lane == 'fast' and 0 or j.upto - had
  return format('%d,%d,%d,%s,%s,%s,%d,%d,%d', j.kv, prefill, j.long, j.lane, int(j.arr), int(j.score), j.prompt, j.upto, had)
end
