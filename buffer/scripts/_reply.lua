-- Neither makes a key: a reply or an inbox that is gone stays gone. By pcall, since a refusal must not stop a script that has begun to write.
-- `spent`: the tokens that the text in `data` took.
local function mark(j, n, kind, data, spent)
  redis.pcall('XADD', P .. 'reply:' .. j.id, 'NOMKSTREAM', int(j.fence) .. '-' .. int(n), 'k', kind, 'n', int(n), 'd', data,
    's', spent or '0')
end
-- `events`: those that came before, from number `first` on; in one entry, so that their reader is woken once.
local function frame(j, n, kind, data, events, first)
  local fields = {'id', j.id, 'f', int(j.fence), 'n', int(n), 'k', kind, 'd', data}
  if events then
    fields[11], fields[12], fields[13], fields[14] = 'm', int(first), 'e', events
  end
  redis.pcall('XADD', P .. 'inbox:' .. j.inbox, 'NOMKSTREAM', '*', unpack(fields))
end
