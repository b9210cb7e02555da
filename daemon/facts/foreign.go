package facts

import (
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// Tools have names in languages other than English, too. These are the most common verbs of some
// widely spoken languages. Verbs in Latin letters are matched as words, like English ones;
// accents are already removed from names. Other scripts do not separate words reliably, so their
// verbs match anywhere in a name.

var inLatinLetters = map[deed][]string{
	acts: strings.Fields(`eliminar elimina elimine borrar borra borre suprimir ejecutar ejecuta pagar comprar transferir instalar desinstalar apagar apaga apague
		detener reiniciar cancelar vaciar destruir
		excluir exclui exclua remover deletar executar rodar desligar esvaziar
		supprimer supprime supprimez effacer efface detruire executer executez lancer acheter desinstaller arreter redemarrer annuler vider
		loschen losche loeschen loesche entfernen entferne ausfuhren ausfuehren bezahlen uberweisen ueberweisen kaufen installieren deinstallieren
		stoppen beenden herunterfahren
		eliminare cancellare cancella rimuovere eseguire esegui pagare comprare acquistare installare disinstallare svuotare`),
	sends: strings.Fields(`enviar envia envie mandar publicar compartir compartilhar encaminhar
		envoyer envoie envoyez publier partager
		senden sende versenden verschicken schicken veroffentlichen veroeffentlichen hochladen
		inviare invia spedire pubblicare condividere`),
}

// otherLetters holds verbs, or their common stems, indexed by deed - 1.
var otherLetters = [acts]string{
	acts - 1: `删除 刪除 移除 清空 卸载 卸載 执行 執行 运行 運行 支付 付款 转账 轉帳 购买 購買 安装 安裝 部署 停止 重启 重啟 取消 授权 授權 销毁 銷毀
		削除 消去 実行 支払 購入 インストール 再起動
		삭제 제거 실행 결제 송금 구매 설치 중지
		удали выполни запусти оплати купи установи останови отмени очисти стереть`,
	sends - 1: `发送 發送 发布 發布 上传 上傳 分享 送信 投稿 公開 アップロード 보내 전송 발송 게시 업로드
		отправить отправь отправля опубликова опубликуй`,
}

// done are affixes that turn such a verb into a past participle: 已删除 means deleted, and so do 削除済
// and 삭제된.
var done = []struct{ before, behind string }{{"已", ""}, {"", "済"}, {"", "된"}}

type foreignWord struct {
	deed deed
	word string // as written
	read string // as normalized by letters
}

var foreignWords = sync.OnceValue(func() []foreignWord {
	var all []foreignWord
	for i, words := range otherLetters {
		for word := range strings.FieldsSeq(words) {
			all = append(all, foreignWord{deed(i + 1), word, letters(word)})
		}
	}
	return all
})

// letters normalizes a name: lower case, without disguises.
func letters(name string) string {
	return norm.NFKC.String(string(new(cleaner).clean([]byte(strings.ToLower(norm.NFKC.String(name))))))
}

// foreignIn returns the verbs of otherLetters in a name, indexed by deed - 1.
func foreignIn(name string) (found [acts]*string) {
	const longest = 1024 // the gate refuses longer names
	name = letters(name[:min(len(name), longest)])
	for _, d := range done {
		if !strings.Contains(name, d.before+d.behind) {
			continue
		}
		for _, w := range foreignWords() {
			name = strings.ReplaceAll(name, d.before+w.read+d.behind, " ")
		}
	}
	for i := range foreignWords() {
		if w := &foreignWords()[i]; found[w.deed-1] == nil && strings.Contains(name, w.read) {
			found[w.deed-1] = &w.word
		}
	}
	return found
}
